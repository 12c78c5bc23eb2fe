// cflags: -Wno-deprecated-declarations
// libraries: -l:libcrypto.a
// prints: ba7816bf
// A digest by the function of its algorithm.
#include <openssl/sha.h>
#include <stdio.h>

int main(void) {
    SHA256_CTX context;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Init(&context);
    SHA256_Update(&context, "abc", 3);
    SHA256_Final(digest, &context);
    printf("%02x%02x%02x%02x\n", digest[0], digest[1], digest[2], digest[3]);
    return 0;
}
