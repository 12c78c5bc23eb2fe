#define F __attribute__((noipa))
extern int far(int), compared(int);
F static int called(int x) { return far(x) * 3 + 1; }
F int global(int x) { return far(x) * 5 + 1; }
F static int kept(int x) { return far(x) * 7 + 1; }
F static void *self(void) { return (void *)self; }
int (*pointer)(int) = kept;
const int constant = 3;
int all(int x) { return called(x) + global(x) + kept(x) + (self() != 0) + (compared == pointer) + constant; }
