#include <stdio.h>
#include "shapes.h"

int main(int argc, char **argv) {
    (void)argv;
    printf("%d\n", area(argc, 3));
    return 0;
}
