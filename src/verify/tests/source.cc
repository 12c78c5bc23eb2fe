extern "C" int puts(const char *);
struct S { ~S(); };
int *address_of_dead; int data[4] = { 1, 2, 3, 4 }; int *pointer = &data[2];
template <class T> T shared(T x) { S s; puts("s"); return x + 1; }
int dead(int x) { S s; puts("dead"); return shared(x); }
int live(int x) { try { S s; return shared(x) + *pointer; } catch (int e) { return e; } }
int other(int x) { return live(x) * 2; }
