#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>
struct Shape { virtual ~Shape() {} virtual int area(int) = 0; };
struct Square : Shape { int k; Square(int k) : k(k) {} int area(int x) override { return x * k; } };
int main(int argc, char **) {
    std::vector<std::unique_ptr<Shape>> all;
    for (int i = 0; i < 5; i++) all.emplace_back(new Square(i));
    std::map<std::string, int> counts; counts["a"] = argc;
    int sum = 0;
    for (auto &shape : all) sum += shape->area(counts["a"]);
    std::printf("%d\n", sum);
}
