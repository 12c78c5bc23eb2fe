// libraries: -l:libpng16.a -l:libz.a -lm
// prints: a signature and 8 rows
// Writing a small image to memory: the half of the library that writes.
#include <png.h>
#include <stdio.h>
#include <string.h>

static png_byte file[8192];
static size_t used;

static void put(png_structp png, png_bytep data, size_t size) {
    if (size > sizeof file - used) png_error(png, "too large");
    memcpy(file + used, data, size);
    used += size;
}

static void flush(png_structp png) { (void)png; }

int main(void) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) return 1;
    png_set_write_fn(png, NULL, put, flush);
    png_set_IHDR(png, info, 8, 8, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    png_write_info(png, info);
    png_byte row[24];
    int rows = 0;
    for (; rows < 8; rows++) {
        memset(row, rows * 30, sizeof row);
        png_write_row(png, row);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    printf("%s and %d rows\n", used > 60 && png_sig_cmp(file, 0, 8) == 0 ? "a signature" : "garbage", rows);
    return 0;
}
