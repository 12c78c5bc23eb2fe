// cflags: -I/usr/include/libxml2
// libraries: -l:libxml2.a -l:libz.a -l:liblzma.a -licuuc -lm
// prints: root a
// A document parsed, without a schema.
#include <libxml/parser.h>
#include <stdio.h>

int main(void) {
    static const char text[] = "<a><b>7</b></a>";
    xmlDocPtr document = xmlReadMemory(text, sizeof text - 1, "a.xml", NULL, 0);
    if (!document) return 1;
    printf("root %s\n", (const char *)xmlDocGetRootElement(document)->name);
    return 0;
}
