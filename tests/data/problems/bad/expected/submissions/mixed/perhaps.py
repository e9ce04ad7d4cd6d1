# @EXPECTED_RESULTS@: PERHAPS
print(input())
