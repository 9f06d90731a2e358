// unused_llvm.c: stands in for the functions that unused_llvm.txt lists, whatever they take and return
void *qd_nothing(void) { return 0; }
