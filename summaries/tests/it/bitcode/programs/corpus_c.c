#include <stdarg.h>
#include <stdio.h>
#include <string.h>
void away(void);
int g = 3; static int s; int tentative[40]; __thread int t; static __thread int st = 4; extern int ext;
extern int weak_ext __attribute__((weak));
extern __thread int ext_t;
__attribute__((weak)) int w(int a) { return a + ext; }
static int (*table[2])(int) = { w, w };
__attribute__((visibility("hidden"))) int h(int i) { return table[i](i) + s; }
__attribute__((visibility("protected"))) int p(int i) { return h(i) + st + ext_t; }
int alias_of_w(int) __attribute__((alias("w")));
static int resolve(int x) { return x; }
static int (*resolver(void))(int) { return resolve; }
int ifn(int) __attribute__((ifunc("resolver")));
__attribute__((used)) static void used_one(void) { s++; st++; }
__attribute__((section("mine"))) int in_section = 5;
__attribute__((retain, used)) int retained;
__attribute__((constructor)) static void ctor(void) { away(); }
extern inline __attribute__((gnu_inline)) int avail(int x) { return x * 7; }
int renamed(int) __asm__("\x01other");
const char *text(int i) { static const char *const names[] = { "a", "b", "c" }; return names[i % 3]; }
int sum(int n, ...) { va_list l; va_start(l, n); int r = 0; while (n--) r += va_arg(l, int); va_end(l); return r; }
int main(int c, char **v) {
    char b[100];
    memset(b, c, 100);
    switch (c) { case 1: w(1); break; case 2: h(2); break; case 3: p(3); break; case 4: ifn(2); break; case 5: renamed(6); }
    printf("%d\n", h(c) + g + t + (&weak_ext ? weak_ext : 0) + b[3] + tentative[c] + avail(c) + sum(2, 1, 2));
    return alias_of_w(c);
}
