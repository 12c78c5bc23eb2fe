// cflags: -I/usr/include/libxml2
// libraries: -l:libxml2.a -l:libz.a -l:liblzma.a -licuuc -lm
// prints: 5 characters
// The length of a string in UTF-8.
#include <libxml/xmlstring.h>
#include <stdio.h>

int main(void) {
    printf("%d characters\n", xmlUTF8Strlen((const xmlChar *)"gr\xc3\xb6\xc3\x9f" "e"));
    return 0;
}
