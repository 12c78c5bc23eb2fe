#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned (*fn)(unsigned, unsigned);
struct entry { unsigned key; fn f; const char *text; };
extern int fuel, jump_ok;
extern jmp_buf jump_to;
extern void *short_jump[5];
extern unsigned sum, plain_data[32];
extern unsigned common_data[16];
extern __thread unsigned per_thread, per_thread_zero;
extern const unsigned constant_data[24];
extern fn settable;
unsigned hash_text(unsigned h, const char *s);
unsigned add_all(int n, ...);
void give_up(unsigned code) __attribute__((noreturn));
