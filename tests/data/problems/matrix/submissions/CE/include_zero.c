/* Includes what does not end. */
#include "/dev/zero"
