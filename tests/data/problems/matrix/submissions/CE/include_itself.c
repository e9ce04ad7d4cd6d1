/* Includes itself. */
#include "include_itself.c"
#include "include_itself.c"
