// A program against a large C++ library: protobuf's libprotobuf.a, whose own messages it describes.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/util/json_util.h>
#include <iostream>

int main() {
    google::protobuf::FileDescriptorProto file;
    google::protobuf::FileDescriptorProto::descriptor()->file()->CopyTo(&file);
    std::string json;
    if (!google::protobuf::util::MessageToJsonString(file, &json).ok()) return 1;
    std::cout << json.size() << std::endl;
}
