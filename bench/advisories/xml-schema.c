// cflags: -I/usr/include/libxml2
// libraries: -l:libxml2.a -l:libz.a -l:liblzma.a -licuuc -lm
// prints: valid 0, matches 1
// A document checked by a schema, and an element by a pattern.
#include <libxml/pattern.h>
#include <libxml/xmlschemas.h>
#include <stdio.h>
#include <string.h>

static const char schema_text[] =
    "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='a'><xs:complexType>"
    "<xs:sequence><xs:element name='b' type='xs:int'/></xs:sequence></xs:complexType></xs:element></xs:schema>";
static const char text[] = "<a><b>7</b></a>";

int main(void) {
    xmlSchemaParserCtxtPtr parser = xmlSchemaNewMemParserCtxt(schema_text, sizeof schema_text - 1);
    xmlSchemaPtr schema = xmlSchemaParse(parser);
    xmlDocPtr document = xmlReadMemory(text, sizeof text - 1, "a.xml", NULL, 0);
    if (!schema || !document) return 1;
    xmlPatternPtr pattern = xmlPatterncompile((const xmlChar *)"a/b", NULL, 0, NULL);
    xmlNodePtr element = xmlDocGetRootElement(document)->children;
    printf("valid %d, ", xmlSchemaValidateDoc(xmlSchemaNewValidCtxt(schema), document));
    printf("matches %d\n", xmlPatternMatch(pattern, element));
    return 0;
}
