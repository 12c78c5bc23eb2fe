static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }
__attribute__((retain, used, section(".data.kept"))) static int kept[] = { 1, 2, 3 };
int main(void) { return constructed ? 0 : 7; }
int dead(int x) { return x + 1; }
