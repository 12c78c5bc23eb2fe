static int helper(int x) { return x * 3 + 1; }
int base_table[64] = { 5, 6, 7 };
int base_live(int x) { return helper(x) + base_table[1]; }
__attribute__((visibility("hidden"))) int base_dead_table[256] = { 1, 2, 3 };
__attribute__((visibility("hidden"), noinline)) int base_dead_callee(int x) { return x + base_dead_table[x & 255]; }
__attribute__((visibility("hidden"))) int base_dead(int x) { return base_dead_callee(x) * base_dead_callee(x + 1); }
