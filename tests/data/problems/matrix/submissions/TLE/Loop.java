// Does not end.
class Loop {
    public static void main(String[] arguments) {
        for (long n = 0;; n++) {
            if (n < 0) System.out.println(n);
        }
    }
}
