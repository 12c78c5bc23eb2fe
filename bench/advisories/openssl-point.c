// libraries: -l:libcrypto.a
// prints: decompressed
// A point of an elliptic curve, from its compressed form.
#include <openssl/ec.h>
#include <openssl/obj_mac.h>
#include <stdio.h>

int main(void) {
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    if (!group) return 1;
    unsigned char form[33];
    const EC_POINT *generator = EC_GROUP_get0_generator(group);
    size_t size = EC_POINT_point2oct(group, generator, POINT_CONVERSION_COMPRESSED, form, sizeof form, NULL);
    EC_POINT *point = EC_POINT_new(group);
    if (size != sizeof form || !EC_POINT_oct2point(group, point, form, size, NULL)) return 1;
    puts(EC_POINT_cmp(group, generator, point, NULL) ? "another point" : "decompressed");
    return 0;
}
