// libraries: -static
// prints: hello
// The C library itself, as an archive.
#include <stdio.h>

int main(void) {
    puts("hello");
    return 0;
}
