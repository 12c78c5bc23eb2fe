// libraries: -l:libz.a
// prints: crc 414fa339
// A checksum: one function of a library.
#include <stdio.h>
#include <string.h>
#include <zlib.h>

int main(void) {
    const char *text = "The quick brown fox jumps over the lazy dog";
    printf("crc %08lx\n", crc32(crc32(0, Z_NULL, 0), (const Bytef *)text, (uInt)strlen(text)));
    return 0;
}
