// Wrong.
class Wrong {
    public static void main(String[] arguments) {
        System.out.println("42 0");
    }
}
