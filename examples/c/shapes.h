int area(int width, int height);
int volume(int width, int height, int depth);
