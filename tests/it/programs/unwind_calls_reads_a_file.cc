#include <fstream>
#include <iostream>
struct Shape { virtual ~Shape() {} virtual int area(int k) { return k; } };
struct Square : Shape { int area(int k) override { return k * k; } };
// Compilers inline the stream's destructor outside of main.
__attribute__((noinline)) bool reads(const char *name) { std::ifstream file(name); return file.good(); }
int main(int argc, char **argv) {
    Shape *shape = argc > 1 ? new Shape : new Square;
    std::cout << reads(argv[0]) << shape->area(3) << std::endl;
    delete shape;
}
