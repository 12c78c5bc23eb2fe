#include <string.h>
void __memprof_init(void) {}
void __memprof_load(long a) {}
void __memprof_store(long a) {}
void *__memprof_memcpy(void *a, void *b, long n) { return memcpy(a, b, n); }
void *__memprof_memmove(void *a, void *b, long n) { return memmove(a, b, n); }
void *__memprof_memset(void *a, int c, long n) { return memset(a, c, n); }
void __memprof_version_mismatch_check_v1(void) {}
long __memprof_shadow_memory_dynamic_address;
void __memprof_loadN(long a, long n) {}
void __memprof_storeN(long a, long n) {}
