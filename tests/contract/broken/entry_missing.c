/* A library of something else. */
int kvt_something_else(void);

int kvt_something_else(void)
{
    return 1;
}
