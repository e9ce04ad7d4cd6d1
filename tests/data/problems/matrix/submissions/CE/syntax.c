/* No program. */
int main(void) { return }
