asm(".globl asm_defined\nasm_defined: jmp asm_wanted\n.weak asm_weak\n.hidden asm_hidden\n.globl asm_hidden\nasm_hidden: ret\n");
extern void asm_defined(void);
void call(void) { asm_defined(); }
