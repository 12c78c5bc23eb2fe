// libraries: -l:libz.a
// prints: named hello.txt
// The name in the header of a gzip file.
#include <stdio.h>
#include <string.h>
#include <zlib.h>

int main(void) {
    unsigned char file[200];
    z_stream out = {0}, in = {0};
    gz_header written = {.name = (Bytef *)"hello.txt"}, read = {0};
    char name[20] = "";
    if (deflateInit2(&out, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 1;
    deflateSetHeader(&out, &written);
    out.next_in = (Bytef *)"hello";
    out.avail_in = 5;
    out.next_out = file;
    out.avail_out = sizeof file;
    if (deflate(&out, Z_FINISH) != Z_STREAM_END) return 1;
    in.next_in = file;
    in.avail_in = (uInt)out.total_out;
    if (inflateInit2(&in, 15 + 16) != Z_OK) return 1;
    read.name = (Bytef *)name;
    read.name_max = sizeof name;
    inflateGetHeader(&in, &read);
    unsigned char back[20];
    in.next_out = back;
    in.avail_out = sizeof back;
    if (inflate(&in, Z_FINISH) != Z_STREAM_END) return 1;
    printf("named %s\n", name);
    return 0;
}
