// libraries: -static
// prints: hello 3
// The C and C++ libraries, as archives.
#include <iostream>
#include <vector>

int main() {
    std::vector<int> numbers{1, 2, 3};
    std::cout << "hello " << numbers.size() << std::endl;
}
