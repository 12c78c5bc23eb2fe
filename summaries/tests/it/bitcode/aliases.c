/* What aliases.rs asks of LLVM 14 and of us: functions in which pointers to different things go different ways. */
struct node { struct node *next; long *value; long number; };
struct pair { long *a, *b; };
long *global; long table[8]; static long hidden; static long *held;
long taken_from(long *p);
void give(long *p);
/* Locals that are never mixed. */
long two_locals(void) { long x = 1, y = 2; long *p = &x, *q = &y; *p = 3; *q = 4; return x + y; }
/* Two of three, by a condition. */
long chosen(int w) { long x = 1, y = 2, z = 3; long *p = w ? &x : &y; long *q = &z; *p = 4; return *q; }
/* Through memory: x and y are held by different locals. */
long held_by_locals(void) { long x, y; long *hx, *hy; long **px = &hx, **py = &hy; *px = &x; *py = &y; *hx = 1; *hy = 2; return **px; }
/* The same, mixed. */
long mixed(int w) { long x, y; long *hx = &x, *hy = &y; long **pp = w ? &hx : &hy; *pp = &x; *hx = 1; *hy = 2; return **pp; }
/* Fields of a local. */
long fields(void) { long x, y; struct pair s; s.a = &x; s.b = &y; *s.a = 1; *s.b = 2; return *s.a; }
/* An argument, and a local that nobody has. */
long argument(long *p) { long x = 5; *p = 1; x = x + *p; long *q = &x; *q = 2; return *p; }
/* A local that somebody got. */
long given(long *p) { long x = 5; give(&x); *p = 1; return x; }
/* A list of locals. */
long list(long *p) { long v; struct node a, b; a.next = &b; b.next = 0; a.value = &v; b.value = p; struct node *n = &a; while (n) { *n->value = 1; n = n->next; } return v; }
/* Globals and locals. */
long globals(void) { long x; global = &table[2]; held = &hidden; long *p = &x; *p = 3; *held = 4; *global = 5; return x; }
/* Arrays of a local. */
long arrays(long i) { long a[4], b[4]; long *p = a + 1, *q = b + i; *p = 1; *q = 2; return a[1]; }
/* What comes back from elsewhere. */
long result(long *p) { long x = 1; long *r = (long *)taken_from(p); long *q = &x; *q = 2; return *r; }
/* Swap through locals. */
void swap(struct pair *s) { long *t; long **h = &t; *h = s->a; s->a = s->b; s->b = *h; }
/* Nested. */
long nested(long *p) { long x; struct pair s; struct pair *ps = &s; struct pair **pps = &ps; (*pps)->a = &x; (*pps)->b = p; *(*pps)->a = 3; return *(*pps)->b; }
