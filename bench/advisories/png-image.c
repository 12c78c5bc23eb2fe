// libraries: -l:libpng16.a -l:libz.a -lm
// prints: 2 by 2 pixels, the same
// An image written and read by the simplified API.
#include <png.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    static const png_byte pixels[12] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9};
    png_byte file[500], back[12];
    png_alloc_size_t size = sizeof file;
    png_image out = {.version = PNG_IMAGE_VERSION, .width = 2, .height = 2, .format = PNG_FORMAT_RGB};
    if (!png_image_write_to_memory(&out, file, &size, 0, pixels, 0, NULL)) return 1;
    png_image in = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&in, file, size)) return 1;
    in.format = PNG_FORMAT_RGB;
    if (!png_image_finish_read(&in, NULL, back, 0, NULL)) return 1;
    printf("%u by %u pixels, %s\n", in.width, in.height, memcmp(pixels, back, 12) ? "others" : "the same");
    png_image_free(&in);
    return 0;
}
