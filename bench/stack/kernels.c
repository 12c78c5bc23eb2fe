// Kernels of programs by others, each run by painted.c: a macro selects one. Memory and strings are from here, so that few
// calls leave the program.
#include <stddef.h>
#include <string.h>

static _Alignas(64) char heap[64 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t *block = (size_t *)(heap + used);
    size = (size + 127) & ~(size_t)63;
    if (used + size > sizeof heap) return 0;
    used += size;
    *block = size;
    return (char *)block + 64;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) {
    char *block = malloc(count * size);
    for (size_t i = 0; block && i < count * size; i++) ((volatile char *)block)[i] = 0;
    return block;
}
void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memmove(void *to, const void *from, size_t size) {
    if (to <= from) return memcpy(to, from, size);
    while (size--) ((volatile char *)to)[size] = ((const char *)from)[size];
    return to;
}
void *memset(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

enum { PLAIN = 60000 };
static unsigned char plain[PLAIN], packed[2 * PLAIN], back[PLAIN];

static void fill(void) {
    used = 0;
    unsigned seed = 1;
    for (unsigned i = 0; i < PLAIN; i++) {
        seed = seed * 1103515245 + 12345;
        plain[i] = i % 1000 < 700 ? (unsigned char)(i * i % 97) : (unsigned char)(seed >> 16);
    }
}

#if defined RUN_BZIP2_COMPRESS || defined RUN_BZIP2_DECOMPRESS
int BZ2_bzBuffToBuffCompress(char *, unsigned *, char *, unsigned, int, int, int);
int BZ2_bzBuffToBuffDecompress(char *, unsigned *, char *, unsigned, int, int);
#elif defined RUN_ZLIB_COMPRESS || defined RUN_ZLIB_UNCOMPRESS
int compress2(unsigned char *, unsigned long *, const unsigned char *, unsigned long, int);
int uncompress(unsigned char *, unsigned long *, const unsigned char *, unsigned long);
#endif

// The other direction is prepared on the usual stack, before main.
static unsigned packed_size;
__attribute__((constructor)) static void prepare(void) {
    fill();
#ifdef RUN_BZIP2_DECOMPRESS
    packed_size = sizeof packed;
    BZ2_bzBuffToBuffCompress((char *)packed, &packed_size, (char *)plain, PLAIN, 9, 0, 0);
#elif defined RUN_ZLIB_UNCOMPRESS
    unsigned long size = sizeof packed;
    compress2(packed, &size, plain, PLAIN, 9);
    packed_size = (unsigned)size;
#elif defined RUN_ZSTD_DECOMPRESS
    size_t ZSTD_compress(void *, size_t, const void *, size_t, int);
    packed_size = (unsigned)ZSTD_compress(packed, sizeof packed, plain, PLAIN, 3);
#endif
    used = 0;
}

long kernel(long argument) {
    (void)argument;
    used = 0;
#if defined RUN_BZIP2_COMPRESS
    unsigned size = sizeof packed;
    return BZ2_bzBuffToBuffCompress((char *)packed, &size, (char *)plain, PLAIN, 9, 0, 0) ? -1 : (long)size;
#elif defined RUN_BZIP2_DECOMPRESS
    unsigned size = sizeof back;
    return BZ2_bzBuffToBuffDecompress((char *)back, &size, (char *)packed, packed_size, 0, 0) ? -1 : (long)size;
#elif defined RUN_ZLIB_COMPRESS
    unsigned long size = sizeof packed;
    return compress2(packed, &size, plain, PLAIN, 9) ? -1 : (long)size;
#elif defined RUN_ZLIB_UNCOMPRESS
    unsigned long size = sizeof back;
    return uncompress(back, &size, packed, packed_size) ? -1 : (long)size;
#elif defined RUN_ZLIB_CRC32
    unsigned long crc32(unsigned long, const unsigned char *, unsigned);
    return (long)crc32(0, plain, PLAIN);
#elif defined RUN_ZLIB_ADLER32
    unsigned long adler32(unsigned long, const unsigned char *, unsigned);
    return (long)adler32(1, plain, PLAIN);
#elif defined RUN_ZSTD_XXH64
    unsigned long ZSTD_XXH64(const void *, size_t, unsigned long);
    return (long)ZSTD_XXH64(plain, PLAIN, 7);
#elif defined RUN_ZSTD_DIVSUFSORT
    int divsufsort(const unsigned char *, int *, int, int);
    static int suffixes[PLAIN + 1];
    return divsufsort(plain, suffixes, PLAIN, 0) ? -1 : suffixes[0];
#elif defined RUN_ZSTD_HIST
    size_t HIST_count(unsigned *, unsigned *, const void *, size_t);
    unsigned counts[256], most = 255;
    return (long)HIST_count(counts, &most, plain, PLAIN);
#elif defined RUN_ZSTD_DECOMPRESS
    size_t ZSTD_decompress(void *, size_t, const void *, size_t);
    return (long)ZSTD_decompress(back, sizeof back, packed, packed_size);
#elif defined RUN_ZSTD_COMPRESS
    size_t ZSTD_compress(void *, size_t, const void *, size_t, int);
    return (long)ZSTD_compress(packed, sizeof packed, plain, PLAIN, 3);
#elif defined RUN_SQLITE_COMPLETE
    int sqlite3_complete(const char *);
    return sqlite3_complete("CREATE TRIGGER x BEFORE INSERT ON t BEGIN SELECT 1; END;");
#elif defined RUN_SQLITE_STRGLOB
    int sqlite3_strglob(const char *, const char *);
    return sqlite3_strglob("a[b-d]*e?", "acxyzef");
#elif defined RUN_LUA_STRING
    unsigned luaS_hash(const char *, size_t, unsigned);
    return (long)luaS_hash((const char *)plain, 1000, 5);
#endif
}
