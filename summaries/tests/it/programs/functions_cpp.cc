struct B { virtual ~B(); virtual int f(int); int m; }; extern void may_throw(int); extern int g(int);
B::~B() {} int B::f(int x) { return g(x + m); }
struct D : B { int f(int) override; }; int D::f(int x) { try { may_throw(x); } catch (int e) { return e; } catch (...) { g(1); throw; } return B::f(x); }
static int helper(int x) { D d; d.m = x; return d.f(x); }
int use(int x) { D d; switch (x) { case 0: return helper(1); case 1: return g(7); case 2: may_throw(3); return 0; case 3: return helper(5);
  case 4: return g(9) + 2; case 5: return d.f(3); case 6: return 12; } return -1; }
