#include <cstdio>
#include <map>
#include <string>
extern "C" int (*table[])(int);
int main(int argc, char **) {
    std::map<std::string, int> values;
    for (int i = 0; i < 8; i++) values[std::to_string(i)] = table[i](argc);
    for (auto &[key, value] : values) std::printf("%s=%d ", key.c_str(), value);
    return 0;
}
