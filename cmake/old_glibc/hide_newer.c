// For tools/check_wheels.py: an auditor of the dynamic loader (LD_AUDIT, rtld-audit(7)) that hides from the modules of a wheel what glibc
// 2.28 does not have. `dlsym` finds nothing there, as in glibc 2.28 itself, so the fallbacks of functions.c run; a binding to a newer
// symbol ends the process. The names of the hidden symbols are appended to the file HIDDEN_SYMBOLS.
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#define NEWEST_MINOR 28

unsigned la_version(unsigned version) { return version; }

/// Whether an object is a module of the wheel. Nothing is called, because the C library of auditors is not ready yet.
static int isModule(const char *path) {
  static const char part[] = "/quadrants/_";
  for (; path && *path; ++path) {
    int length = 0;
    while (part[length] && path[length] == part[length]) ++length;
    if (!part[length]) return 1;
  }
  return 0;
}

unsigned la_objopen(struct link_map *object, Lmid_t space, uintptr_t *cookie) {
  (void)space;
  *cookie = (uintptr_t)object;
  return isModule(object->l_name) ? LA_FLG_BINDFROM : LA_FLG_BINDTO;
}

/// Returns the name of the version of a symbol that an object defines, or null.
static const char *findVersion(const struct link_map *object, unsigned number) {
  const ElfW(Half) *versions = NULL;
  const char *definitions = NULL, *strings = NULL;
  for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; ++entry) {
    // The loader relocates some of the addresses in place.
    ElfW(Addr) address = entry->d_un.d_ptr + (entry->d_un.d_ptr < object->l_addr ? object->l_addr : 0);
    if (entry->d_tag == DT_VERSYM) versions = (const void *)address;
    if (entry->d_tag == DT_VERDEF) definitions = (const void *)address;
    if (entry->d_tag == DT_STRTAB) strings = (const void *)address;
  }
  if (!versions || !definitions) return NULL;
  for (const char *at = definitions;; at += ((const ElfW(Verdef) *)at)->vd_next) {
    const ElfW(Verdef) *definition = (const void *)at;
    if (definition->vd_ndx == (versions[number] & 0x7fff)) return strings + ((const ElfW(Verdaux) *)(at + definition->vd_aux))->vda_name;
    if (!definition->vd_next) return NULL;
  }
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned number, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name) {
  if (!isModule(((const struct link_map *)*from)->l_name)) return symbol->st_value;
  const char *version = findVersion((const struct link_map *)*to, number);
  int minor = 0;
  if (!version || sscanf(version, "GLIBC_2.%d", &minor) != 1 || minor <= NEWEST_MINOR) return symbol->st_value;
  if (!(*flags & LA_SYMB_DLSYM)) {
    fprintf(stderr, "%s needs %s of %s\n", ((const struct link_map *)*from)->l_name, name, version);
    abort();
  }
  FILE *file = getenv("HIDDEN_SYMBOLS") ? fopen(getenv("HIDDEN_SYMBOLS"), "a") : NULL;
  if (file) {
    fprintf(file, "%s\n", name);
    fclose(file);
  }
  return 0;
}
