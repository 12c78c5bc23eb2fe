// libraries: -l:libcrypto.a
// prints: differ, header DATA
// Two names of certificates compared, a PEM file read, and a signed message streamed.
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

static GENERAL_NAME *name(const char *text) {
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *string = ASN1_IA5STRING_new();
    ASN1_STRING_set(string, text, -1);
    GENERAL_NAME_set0_value(name, GEN_DNS, string);
    return name;
}

int main(void) {
    printf(GENERAL_NAME_cmp(name("a.example"), name("b.example")) ? "differ, " : "same, ");
    BIO *file = BIO_new_mem_buf("-----BEGIN DATA-----\naGVsbG8=\n-----END DATA-----\n", -1);
    char *kind = NULL, *header = NULL;
    unsigned char *data = NULL;
    long size = 0;
    if (!PEM_read_bio(file, &kind, &header, &data, &size)) return 1;
    printf("header %s\n", kind);
    PKCS7 *message = PKCS7_new();
    PKCS7_set_type(message, NID_pkcs7_data);
    BIO *out = BIO_new(BIO_s_mem());
    return BIO_new_PKCS7(out, message) == NULL;
}
