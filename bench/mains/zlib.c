// libraries: -l:libz.a
// prints: round trip of 9000 bytes: same
// Compression and decompression of a whole buffer: most of the library.
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static unsigned char plain[9000], packed[12000], back[9000];

int main(void) {
    uLongf packed_size = sizeof packed, back_size = sizeof back;
    for (unsigned i = 0; i < sizeof plain; i++) plain[i] = (unsigned char)(i % 71);
    int failed = compress(packed, &packed_size, plain, sizeof plain) != Z_OK;
    failed |= uncompress(back, &back_size, packed, packed_size) != Z_OK;
    failed |= memcmp(plain, back, sizeof plain) != 0;
    printf("round trip of %lu bytes: %s\n", back_size, failed ? "different" : "same");
    return failed;
}
