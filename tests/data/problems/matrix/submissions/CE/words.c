/* Makes the compiler say much. */
#define E x y z;
#define F E E E E E E E E
#define G F F F F F F F F
#define H G G G G G G G G
H H H H
