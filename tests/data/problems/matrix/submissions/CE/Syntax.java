// No program.
class Syntax { int }
