/* A profiler of ranges: writes each begin and end to stderr, as a tool for NVTX or as the library of ROCTX. */
#include <stdint.h>
#include <stdio.h>

typedef void (*Function)(void);

int roctxRangePushA(const char *name) { return fprintf(stderr, "begin %s\n", name) * 0; }
int roctxRangePop(void) { return fprintf(stderr, "end\n") * 0; }

struct Callbacks {
  size_t size;
  int (*getFunctions)(uint32_t module, Function ***table, unsigned *count);
};

struct Versions {
  size_t size;
  uint32_t version, reserved;
  void (*setToolVersion)(uint32_t);
};

int InitializeInjectionNvtx2(const void *(*getTable)(uint32_t)) {
  const struct Callbacks *callbacks = getTable(1);
  const struct Versions *versions = getTable(3);
  Function **table;
  unsigned count;
  if (!callbacks || callbacks->size < sizeof *callbacks || !versions || versions->version != 3 || getTable(2)) return 0;
  versions->setToolVersion(3);
  if (callbacks->getFunctions(5, &table, &count) || count != 0 || !callbacks->getFunctions(1, &table, &count) || count != 17) return 0;
  for (unsigned i = 1; i < count; ++i)
    if (!table[i] != (i == 16)) return 0; /* null ends the table */
  *table[9] = (Function)roctxRangePushA;
  *table[11] = (Function)roctxRangePop;
  return 1;
}
