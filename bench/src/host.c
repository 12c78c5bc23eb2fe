/* Load a library and call each function that is named. */
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    for (int i = 2; i < count; i++) {
        int (*function)(long, long, long) = (int (*)(long, long, long))dlsym(library, words[i]);
        if (function)
            printf("%s %d\n", words[i], function(1, 2, 3));
        else
            printf("%s is not there\n", words[i]);
        fflush(stdout);
    }
    return 0;
}
