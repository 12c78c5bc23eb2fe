// libraries: -l:libbz2.a
// prints: round trip of 7000 bytes: same
// Compression and decompression of a whole buffer.
#include <bzlib.h>
#include <stdio.h>
#include <string.h>

static char plain[7000], packed[9000], back[7000];

int main(void) {
    unsigned packed_size = sizeof packed, back_size = sizeof back;
    for (unsigned i = 0; i < sizeof plain; i++) plain[i] = (char)(i % 13);
    int failed = BZ2_bzBuffToBuffCompress(packed, &packed_size, plain, sizeof plain, 9, 0, 0) != BZ_OK;
    failed |= BZ2_bzBuffToBuffDecompress(back, &back_size, packed, packed_size, 0, 0) != BZ_OK;
    failed |= memcmp(plain, back, sizeof plain) != 0;
    printf("round trip of %u bytes: %s\n", back_size, failed ? "different" : "same");
    return failed;
}
