import pytest
@pytest.mark.slow
def test_x(assembly):
    print(assembly.folder)
    import shutil; shutil.copytree(assembly.folder,"/tmp/w/Ex/test.out",dirs_exist_ok=True)
