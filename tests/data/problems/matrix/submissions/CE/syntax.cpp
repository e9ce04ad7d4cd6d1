// No program.
int main() { return }
