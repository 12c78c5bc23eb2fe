#include <iostream>
#include "parser.h"

int main(int argc, char **argv) {
    std::cout << parse(argc > 1 ? argv[1] : "17") << "\n";
}
