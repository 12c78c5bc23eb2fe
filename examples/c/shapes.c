#include "shapes.h"

int area(int width, int height) { return width * height; }

/* No caller in this program. The table is dead with it. */
static const int factors[1000] = {1, 2, 3};
int volume(int width, int height, int depth) { return area(width, height) * depth * factors[depth % 1000]; }
