#include "other_tools.h"
Base::~Base() {}
int other(int x) { try { Box<int> b; return inline_both(x) + b.f() + Box<int>::count + ++inline_variable; }
                   catch (int) { return -1; } }
int other_dead(int x) { Box<long> b; return inline_dead(x) + b.f() + Box<long>::count; }
struct Global { int v; Global() : v(other_count()) {} static int other_count() { return 4; } } global;
