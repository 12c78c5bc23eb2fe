#include "other_tools.h"
#include <cstdio>
int dead(int x) { try { return other_dead(x) + inline_dead(x); } catch (std::logic_error &e) { return -2; } }
int main(int argc, char **) {
    int r = 0;
    try { r = other(-argc); } catch (std::runtime_error &e) { r = 77; printf("%s\n", e.what()); }
    Box<int> b; Base *p = &b;
    std::map<std::string, std::vector<int>> m; m["k"].push_back(inline_both(argc));
    printf("%d %d %d %d %zu\n", r, p->f(), inline_both(1) + Box<int>::count, inline_variable, m.size());
    return 0;
}
