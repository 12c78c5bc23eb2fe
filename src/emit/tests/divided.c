#include <stdlib.h>
#define NOINLINE __attribute__((noinline, noclone))
static NOINLINE int helper(int x) { asm(""); return x * 2; }
static NOINLINE int dead_helper(int x) { asm(""); return x * 4; }
static NOINLINE __attribute__((cold)) void fail(int x) { if (x == 12345) abort(); }
int dead_switch(int k, int x) {
    switch (k) { case 0: return helper(x); case 1: return x + 1; case 2: return dead_helper(x) * 7; case 3: return x * x;
      case 4: return x / 3; case 5: return dead_helper(x); case 6: return x ^ 5; case 7: return -x; default: return 99; }
}
int lib_dead(int x) { return dead_helper(x) + dead_switch(x, x); }
int lib_switch(int k, int x) {
    switch (k) { case 0: return helper(x + 1); case 1: return x + 10; case 2: return x * 70; case 3: return x * x - 3;
      case 4: return x / 3 + 2; case 5: return helper(x) + 1; case 6: return x ^ 50; case 7: return -x;
      case 8: fail(x); return 1; default: return 9; }
}
int other_dead_switch(int k, int x) {
    switch (k) { case 0: return x + 3; case 1: return helper(x) + 2; case 2: return x * 6; case 3: return x * x - 9;
      case 4: return x / 5 + 2; case 5: return x + 11; case 6: fail(x + 1); return x ^ 50; case 7: return -x; default: return 8; }
}
int lib_used(int x) { fail(x); return helper(x) + 1; }
static int impl1(int x) { return x + 100; }
