extern int far(int), further(int);
#define F __attribute__((noipa)) static int
F called(int x) { return far(x) * 3 + 1; }
F kept(int x) { return far(x) * 5 + 1; }
F self(int x) { extern void *out; out = (void *)self; return x; }
F swap(int x) { switch (x) { case 0: return 4; case 1: return far(5); case 2: return far(7); case 3: return 9; case 4: return far(1); } return 0; }
int behind(int x) { return far(x) * 7; } // An address just before it, of a label, may mean it.
int (*pointer(void))(int) { return kept; }
int (*outer(void))(int) { return further; }
int all(int x) { return called(x) + kept(x) + self(x) + swap(x) + pointer()(x) + outer()(x); }
