// A program against a large C library with assembly: OpenSSL's libcrypto.a.
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>

int main(void) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL) || !EVP_DigestUpdate(context, "abc", 3) ||
        !EVP_DigestFinal_ex(context, digest, &length))
        return 1;
    EVP_MD_CTX_free(context);
    for (unsigned i = 0; i < length; i++) printf("%02x", digest[i]);
    puts("");
}
