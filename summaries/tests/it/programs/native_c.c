    int counter; static int hidden = 3; extern int outside(int *);
    static int helper(int x) { return outside(&hidden) + x; }
    int (*table[2])(int) = { helper, 0 };
    const char *const text = "text";
    __thread int per_thread = 1; __thread int per_thread_zero;
    __attribute__((section("own_section"), used)) int own = 1;
    __attribute__((constructor)) void start(void) { counter++; per_thread++; per_thread_zero++; }
    __attribute__((weak)) int soft(int x) { return helper(x) + table[1](x); }
    int main(void) { return soft(1); }
